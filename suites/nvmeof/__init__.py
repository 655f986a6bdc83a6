"""NVMe over TCP to RBD images: gateways and initiators of both architectures, and failover within a gateway pair."""

from cephlab.suites.nvmeof import (
    access,
    content,
    failover,
    known,
    namespaces,
    overhead,
    pool,
    queues,
    rolling,
    six_clients,
    smallest,
    spdk,
    tls,
    wire,
)

SCENARIOS = (
    *smallest.SCENARIOS,
    *content.SCENARIOS,
    *access.SCENARIOS,
    *failover.SCENARIOS,
    *overhead.SCENARIOS,
    *rolling.SCENARIOS,
    *namespaces.SCENARIOS,
    *wire.SCENARIOS,
    *spdk.SCENARIOS,
    *tls.SCENARIOS,
    *known.SCENARIOS,
    *pool.SCENARIOS,
    *queues.SCENARIOS,
    *six_clients.SCENARIOS,
)
