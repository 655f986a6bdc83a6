"""Reads a ceph.conf as settings for a job: without locations and secrets; settings that a release lacks are noted."""

import configparser
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from cephlab.lab.base.errors import SpecError
from cephlab.lab.jobs.jobfile import HINT

_PLACES = re.compile(
    r"fsid|host|.*_host(?:_override)?|mon_initial_members|.*addrv?|.*_network|.*_data|.*_journal|.*cmd|setuser.*|setgroup.*|chdir|"
    r".*_(?:dir|file|path|socket|uri|url|endpoint)|log_to_.*|rgw_frontends"
)
"""Settings that depend on where a cluster runs: hosts, addresses, paths."""
_SECRETS = re.compile(
    r"key|keyfile|keyring|auth_.*|.*(?:password|passphrase|secret|token|credentials?)|"
    r"rgw_(?:barbican|crypt|keystone|kmip|ldap|opa|sts)_.*"
)
"""Settings that give access to a cluster or its neighbours. They are left out: jobs are kept in repositories."""
_WHOLE = ("global", "mon", "mgr", "osd", "client")


@dataclass(frozen=True)
class Conf:
    """The options of a ceph.conf that a job uses. notes: names what it leaves out."""

    options: Mapping[str, str]
    notes: Sequence[str]


def read_conf(text: str, source: str, known: Collection[str] | None, release: str) -> Conf:
    """Parse a ceph.conf. known: names of the settings of a release, None if they could not be looked up."""
    parser = configparser.ConfigParser(interpolation=None, strict=False, delimiters=("=",), comment_prefixes=("#", ";"))
    try:
        parser.read_string("\n".join(line.strip() for line in text.splitlines()), source)
    except configparser.Error as error:
        # Not the line itself, which may be a secret.
        lines = [number for number, _ in getattr(error, "errors", ())] or [getattr(error, "lineno", "?")]
        why = f"line {lines[0]}: wanted: [SECTION] or, below one, NAME = VALUE"
        raise SpecError(f"{source} is not a ceph.conf", why, HINT) from None
    options: dict[str, str] = {}
    left, lacking = set(), set()
    for section in (name for name in _WHOLE if parser.has_section(name)):
        for key, value in parser.items(section):
            name = re.sub(r"[ -]+", "_", key.strip())
            if _PLACES.fullmatch(name) or _SECRETS.fullmatch(name):
                left.add(name)
            elif known is not None and name not in known:
                lacking.add(name)
            else:
                options[name] = value
    others = sorted(set(parser.sections()) - {*_WHOLE})
    notes = [
        *([f"{source}: not copied: {', '.join(sorted(left))}"] if left else []),
        *([f"{source}: {release} does not have {', '.join(sorted(lacking))}"] if lacking else []),
        *([f"{source}: sections of single daemons are ignored: {', '.join(others)}"] if others else []),
        *([f"{source}: without an image of {release} its settings were not checked"] if known is None else []),
    ]
    return Conf(options, notes)
