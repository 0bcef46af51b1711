"""Ready applications, by the name under which `penstock run NAME` finds them."""

APPS: dict[str, str] = {
    "app-tracker": "penstock.apps.app_tracker:topology",
    "click-stream": "penstock.apps.click_stream:topology",
    "demo": "penstock.apps.demo:topology",
    "flow-control": "penstock.apps.flow_control:topology",
    "packet-counter": "penstock.apps.packet_counter:topology",
    "slow-paths": "penstock.apps.slow_paths:topology",
    "smart-pcc": "penstock.apps.smart_pcc:topology",
}
