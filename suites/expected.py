"""What daemons log because a scenario takes something of the cluster away: pattern -> why it is no fault of theirs.

A suite's table is put together of these and of what it alone causes.
"""

from __future__ import annotations

HEALTH_TOLD = {
    r"log_channel\(cluster\) log \[(WRN|ERR)\] : ": (
        "The cluster log tells of what the scenario did; what does not pass is seen by the health check at the end."
    ),
}
"""All of the cluster log: for scenarios that break so much that naming the checks one by one would say nothing."""

DEAD_COUNT = {r"definitely_dead \d+$": "The monitor counts OSDs that are dead for good, none here, at error level."}

MON_TERMINATED = {
    r"\*\*\* Got Signal Terminated \*\*\*": "The scenario stopped that monitor, which says so at error level."
}

OSD_STOPPED = {
    r"log_channel\(cluster\) log \[WRN\] : Health check (failed|update): .*\((OSD_DOWN|OSD_HOST_DOWN)\)": (
        "The scenario stopped that OSD."
    ),
}

PEERS_MISSED = {
    r"heartbeat_check: no reply from": "The OSD misses one that the scenario took away or restarted.",
    r"(lease_timeout|lease_expire|collect timeout|accept timeout)": (
        "Monitors miss one that the scenario took away or restarted."
    ),
}
