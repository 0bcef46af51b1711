"""Make sure that what a node does can be sent to the workers."""

from __future__ import annotations

import cloudpickle

from penstock.errors import NotShippable
from penstock.topology.graph import Node


def check_shippable(node: Node) -> None:
    """Raise unless the node's functions and operators survive the way to another process."""
    for what, value in (("its logic", node.spec), *((e.describe(), e.route) for e in node.inputs)):
        try:
            cloudpickle.loads(cloudpickle.dumps(value))
        except Exception as error:
            raise NotShippable(
                node=node.name, site=node.site, what=what, reason=f"{type(error).__name__}: {error}"
            ) from error
