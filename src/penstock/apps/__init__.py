"""Ready applications, by the name under which `penstock run NAME` finds them."""

APPS: dict[str, str] = {
    "app-tracker": "penstock.apps.app_tracker:topology",
    "demo": "penstock.apps.demo:topology",
    "packet-counter": "penstock.apps.packet_counter:topology",
    "smart-pcc": "penstock.apps.smart_pcc:topology",
}
