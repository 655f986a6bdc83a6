"""A ceph.conf as settings for a job: without places and secrets, and with what a release lacks listed."""

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
"""Settings of ceph.conf that say where a cluster is."""
_SECRETS = re.compile(
    r"key|keyfile|keyring|auth_.*|.*(?:password|passphrase|secret|token|credentials?)|"
    r"rgw_(?:barbican|crypt|keystone|kmip|ldap|opa|sts)_.*"
)
"""Settings that say who may enter a cluster, or its neighbours: a job lies in repositories and archives."""
_WHOLE = ("global", "mon", "mgr", "osd", "client")


@dataclass(frozen=True)
class Conf:
    """What of a ceph.conf a job takes. notes: what it does not, by name."""

    options: Mapping[str, str]
    notes: Sequence[str]


def read_conf(text: str, source: str, known: Collection[str] | None, release: str) -> Conf:
    """A ceph.conf. known: the names of a release's settings, None where nobody could be asked."""
    parser = configparser.ConfigParser(interpolation=None, strict=False, delimiters=("=",), comment_prefixes=("#", ";"))
    try:
        parser.read_string("\n".join(line.strip() for line in text.splitlines()), source)
    except configparser.Error as error:
        raise SpecError(f"{source} is not a ceph.conf", type(error).__name__, HINT) from None
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
        *([f"{source}: {release} lacks {', '.join(sorted(lacking))}"] if lacking else []),
        *([f"{source}: sections of single daemons are ignored: {', '.join(others)}"] if others else []),
        *([f"{source}: no image of {release} is built, so its settings were not looked up"] if known is None else []),
    ]
    return Conf(options, notes)
