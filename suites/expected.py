"""Log lines that daemons write because a scenario takes a part of the cluster away: pattern -> why it is expected.

A suite adds these to its own table.
"""

HEALTH_TOLD = {
    r"log_channel\(cluster\) log \[(WRN|ERR)\] : ": (
        "The cluster log reports what the scenario did. The health check at the end finds what is still wrong."
    ),
}
"""Allows the whole cluster log, for scenarios that break so much that a list of single checks would tell nothing."""

DEAD_COUNT = {r"definitely_dead \d+$": "The monitor logs at error level how many OSDs are dead for good, here 0."}

MON_TERMINATED = {
    r"\*\*\* Got Signal Terminated \*\*\*": "The scenario stopped that monitor, which logs it at error level."
}

OSD_STOPPED = {
    r"log_channel\(cluster\) log \[WRN\] : Health check (failed|update): .*\((OSD_DOWN|OSD_HOST_DOWN)\)": (
        "The scenario stopped that OSD."
    ),
}

PEERS_MISSED = {
    r"heartbeat_check: no reply from": "The OSD misses a peer that the scenario stopped or restarted.",
    r"(lease_timeout|lease_expire|collect timeout|accept timeout)": (
        "A monitor misses a peer that the scenario stopped or restarted."
    ),
}
