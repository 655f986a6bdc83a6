"""Recipes: what they give, what they refuse, and that a digest tells different ones apart."""

from pathlib import Path

import pytest

from cephlab.lab.base.errors import SpecError
from cephlab.lab.images.recipe import RECIPES, Recipe, read_recipes
from cephlab.lab.spec.arch import Arch

BOOK = read_recipes()


def recipe(release: str = "reef", arch: Arch = Arch.X86_64, *role_sets: str) -> Recipe:
    return BOOK.find(release, arch, role_sets or ("ceph",))


@pytest.mark.parametrize(("release", "suite"), [("pacific", "bookworm"), ("reef", "trixie"), ("tentacle", "sid")])
@pytest.mark.parametrize("arch", list(Arch))
def test_a_release_is_a_debian_suite(release: str, suite: str, arch: Arch) -> None:
    contents = recipe(release, arch)
    assert (contents.suite, contents.arch) == (suite, arch)
    assert {"ceph-mon", "ceph-osd", "ceph-test", "python3-rados", "tar"} <= set(contents.packages)
    assert {"ceph-osd", "ceph-erasure-code-tool", "osdmaptool", "ip"} <= set(contents.programs)


def test_reef_is_what_you_get_when_you_do_not_say() -> None:
    assert BOOK.default == "reef"


@pytest.mark.parametrize(
    ("release", "role_sets", "got", "known"),
    [
        ("quincy", ("ceph",), "unknown release 'quincy'", "nautilus, pacific, reef, tentacle"),
        ("reef", ("ceph", "kernal"), "unknown role set 'kernal'", "ceph"),
        ("reef", (), "an image needs at least one role set", "ceph"),
    ],
)
def test_an_unknown_name_is_refused_with_the_known_ones(
    release: str, role_sets: tuple[str, ...], got: str, known: str
) -> None:
    with pytest.raises(SpecError) as caught:
        BOOK.find(release, Arch.X86_64, role_sets)
    assert caught.value.what == got
    assert known in str(caught.value)


def test_an_architecture_that_a_release_lacks_is_refused(tmp_path: Path) -> None:
    book = read_recipes(changed(tmp_path, '["x86_64", "aarch64"]', '["x86_64"]'))
    with pytest.raises(SpecError, match="unknown architecture of reef 'aarch64'") as caught:
        book.find("reef", Arch.AARCH64)
    assert caught.value.hint == "use only nodes of x86_64: --nodes x86_64:3"


def test_a_role_set_that_an_architecture_lacks_is_refused() -> None:
    assert "ceph-fuse" in recipe("reef", Arch.X86_64, "ceph", "fuse").programs
    with pytest.raises(SpecError, match="unknown architecture of the role set fuse 'aarch64'"):
        recipe("reef", Arch.AARCH64, "ceph", "fuse")


def test_the_order_of_role_sets_makes_no_difference(tmp_path: Path) -> None:
    path = tmp_path / "recipes.toml"
    path.write_text(RECIPES.read_text() + '\n[role_sets.kernel]\npackages = ["nvme-cli"]\n')
    book = read_recipes(path)
    both = book.find("reef", Arch.X86_64, ("kernel", "ceph"))
    assert both == book.find("reef", Arch.X86_64, ("ceph", "kernel", "ceph"))
    assert "nvme-cli" in both.packages
    assert both.digest != recipe().digest


def test_equal_recipes_have_equal_digests_and_others_do_not(tmp_path: Path) -> None:
    same = read_recipes(changed(tmp_path, "# The contents", "# The content")).find("reef", Arch.X86_64)
    other = read_recipes(changed(tmp_path, '  "fio",\n  "iperf3', '  "iperf3')).find("reef", Arch.X86_64)
    digests = {recipe().digest, recipe("tentacle").digest, recipe("reef", Arch.AARCH64).digest, other.digest}
    assert same.digest == recipe().digest
    assert len(digests) == 4


def test_a_release_brings_what_its_packages_forgot_to_name() -> None:
    assert "libqatzip3" in recipe("tentacle").packages
    assert "libqatzip3" not in recipe("tentacle", Arch.AARCH64).packages
    assert "libqatzip3" not in recipe().packages
    hypervisor = read_recipes().find("tentacle", Arch.X86_64, ("hypervisor",))
    assert "libqatzip3" not in hypervisor.packages


def test_a_release_does_without_what_its_suite_lacks() -> None:
    old, new = recipe("nautilus"), recipe()
    assert set(new.packages) - set(old.packages) == {"ceph-test"}
    assert set(new.programs) - set(old.programs) == {"ceph-erasure-code-tool"}
    assert (old.supported, new.supported) == (False, True)
    assert (BOOK.archs_of("nautilus"), BOOK.archs_of("reef")) == ((Arch.X86_64,), tuple(Arch))
    with pytest.raises(SpecError, match="unknown release 'quincy'"):
        BOOK.archs_of("quincy")


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ('default = "reef"', 'default = "squid"', "squid"),
        ('suite = "trixie"', 'suite = "trixie"\nsweet = 1', "releases.reef.sweet"),
        ('suite = "trixie"', 'suite = "tri xie"', "releases.reef.suite"),
        ('lacks = ["ceph-test"', 'lacks = ["ceph-tset"', "lacks of nautilus: ceph-tset"),
        ('  "ceph-mgr",', '  "ceph-mgr; rm -rf /",', "role_sets.ceph.packages"),
        ('  "ceph-mgr",', '  "--allow-unauthenticated",', "role_sets.ceph.packages"),
        ('["x86_64", "aarch64"]', '["sparc"]', "archs"),
        ('["x86_64", "aarch64"]', "[]", "archs"),
        ("[base]", "[bass]", "base"),
        ("[role_sets.ceph]", "[role_sets.'Ce/ph']", "Ce/ph"),
        ('default = "reef"', "default = ", "is not TOML"),
    ],
)
def test_a_bad_recipe_file_is_refused_with_the_place(tmp_path: Path, old: str, new: str, complaint: str) -> None:
    with pytest.raises(SpecError) as caught:
        read_recipes(changed(tmp_path, old, new))
    assert complaint in str(caught.value)


def test_a_recipe_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="cannot be read"):
        read_recipes(tmp_path / "none.toml")


def changed(folder: Path, old: str, new: str) -> Path:
    text = RECIPES.read_text()
    assert old in text
    path = folder / "recipes.toml"
    path.write_text(text.replace(old, new))
    return path
