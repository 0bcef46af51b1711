"""Ready applications, by the name under which `penstock run NAME` finds them."""

APPS: dict[str, str] = {
    "demo": "penstock.apps.demo:topology",
    "packet-counter": "penstock.apps.packet_counter:topology",
}
