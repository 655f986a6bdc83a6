"""Settings in force: daemons run with those of their configuration and no others, OSDs with their disk's weight."""

from collections.abc import Mapping
from typing import Any

from cephlab.lab.cluster.own import own
from cephlab.lab.scenario.scenario import Scenario, Stage
from cephlab.lab.scenario.topology import ANY_ARCH
from cephlab.suites.interop.unlike import note_weights, sizes_of, weights_of

KINDS = ("mon", "mgr", "osd")
"""Daemons that answer `config diff` to a client."""
KNOWN = {"default", "file", "override", "final"}
"""Where a value may come from: Ceph's default, the lab's ceph.conf, the daemon itself. `final` is the one in force."""


def run(stage: Stage) -> None:
    """Read the settings of each daemon that differ from Ceph's defaults, and the weight of each OSD."""
    cluster = own(stage.cluster)  # whoever runs an existing one may set what they like
    for name in sorted(name for name, daemon in cluster.daemons.items() if daemon.kind in KINDS):
        settings = cluster.client.tell(name, "config diff")["diff"]
        stage.recorder.observe(f"settings of {name} from elsewhere", got=strays(settings), wanted={}, of=len(settings))
        from_file = sum("file" in entry for entry in settings.values())
        stage.recorder.observe(f"settings of {name} not as in its file", got=ignored(settings), wanted={}, of=from_file)
    note_weights(stage.recorder, weights_of(cluster), sizes_of(cluster))


def strays(settings: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Settings with a source that the lab does not use: a command line, the environment, the monitors' database."""
    foreign = {key: {source: entry[source] for source in entry.keys() - KNOWN} for key, entry in settings.items()}
    return {key: sources for key, sources in foreign.items() if sources}


def ignored(settings: Mapping[str, Mapping[str, Any]]) -> dict[str, list[str]]:
    """Settings whose value in force is not the file's: option -> [file, in force].

    What a daemon overrides itself is left out, and a file's value with a variable of Ceph, as `$osd_data/keyring`.
    """
    pairs = {
        key: [str(entry["file"]), str(entry["final"])]
        for key, entry in settings.items()
        if "file" in entry and "override" not in entry
    }
    return {key: pair for key, pair in pairs.items() if pair[0] != pair[1] and "$" not in pair[0]}


SCENARIOS = (
    Scenario(
        name="baseline.settings",
        goal="Each daemon runs with the settings of its configuration and no others, each OSD with its disk's weight.",
        method="Asks each daemon which of its settings differ from Ceph's defaults, and where they come from; compares "
        "the CRUSH weight of each OSD with the size of its disk.",
        run=run,
        topology=ANY_ARCH,
        check="figures",
        sees=("settings of .* from elsewhere", "settings of .* not as in its file", "weight of osd[.].* over its disk"),
    ),
)
