"""Sizes of pages without any machine: who may ask, who refuses, which kernel it takes, and how one is built."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from cephlab.lab.base.errors import LabBroken, SpecError, Unavailable
from cephlab.lab.base.home import Home
from cephlab.lab.base.process import Result
from cephlab.lab.base.runs import Runs
from cephlab.lab.ceph.memory import MemoryUse, pools_of
from cephlab.lab.checks import CHECKS, Outcome
from cephlab.lab.history.history import History
from cephlab.lab.images.kernels import Kernel, KernelStore, build_kernel
from cephlab.lab.images.recipe import RECIPES, KernelRecipe, read_recipes
from cephlab.lab.providers.guest.lab import GuestLab
from cephlab.lab.providers.guest.machine import Make, Parts
from cephlab.lab.providers.guest.provider import GuestProvider
from cephlab.lab.providers.guest.provider import qemu as qemu_provider
from cephlab.lab.providers.guest.provider import uml as uml_provider
from cephlab.lab.providers.local import LocalProvider
from cephlab.lab.providers.select import choose
from cephlab.lab.scenario.topology import Topology
from cephlab.lab.spec.arch import Arch, host_arch
from cephlab.lab.spec.clusterspec import MIB, Capability, ClusterSpec, Node
from cephlab.lab.spec.layout import build_spec
from cephlab.lab.spec.specfile import load_spec, spec_from_json, spec_to_json
from cephlab.suites.interop import pages

KIB = 1 << 10
OTHER = next(arch for arch in Arch if arch is not Arch.AARCH64)


def spec(page_bytes: int | None, arch: Arch = Arch.AARCH64) -> ClusterSpec:
    first, second = build_spec([(OTHER, 1), (Arch.AARCH64, 1)]).nodes
    wanted = {first.arch: first, second.arch: second}
    wanted[arch] = replace(wanted[arch], page_bytes=page_bytes)
    return ClusterSpec(tuple(wanted.values()))


def test_a_size_is_asked_for_by_a_node_and_needs_who_can_grant_it() -> None:
    assert spec(None).needs() == spec(4 * KIB, Arch.X86_64).needs() == frozenset()
    assert spec(64 * KIB).needs() == {Capability.PAGE_SIZE}
    assert spec_from_json(spec_to_json(spec(16 * KIB))) == spec(16 * KIB)


@pytest.mark.parametrize(("size", "arch"), [(64 * KIB, Arch.X86_64), (8 * KIB, Arch.AARCH64), (0, Arch.AARCH64)])
def test_a_size_that_no_processor_has_is_refused_by_node_got_and_wanted(size: int, arch: Arch) -> None:
    with pytest.raises(SpecError) as caught:
        spec(size, arch)
    named = next(node.name for node in spec(None).nodes if node.arch is arch)
    assert named in caught.value.what
    assert f"got {size}, wanted: 4096" in caught.value.detail


def test_a_spec_file_names_the_key(tmp_path: Path) -> None:
    path = tmp_path / "cluster.toml"
    path.write_text('[[nodes]]\nname = "n0"\narch = "aarch64"\nmon = true\nmgr = true\npage_bytes = 16384\n')
    assert load_spec(path).nodes[0].page_bytes == 16 * KIB
    path.write_text(path.read_text().replace("16384", "32768"))
    with pytest.raises(SpecError, match="32768") as caught:
        load_spec(path)
    assert caught.value.detail.startswith("nodes.0.page_bytes: ")


def test_a_provider_without_kernels_of_its_own_refuses_by_node_and_size() -> None:
    wanted = ClusterSpec((Node("n0", host_arch(), mon=True, mgr=True), Node("n7", Arch.AARCH64, page_bytes=64 * KIB)))
    with pytest.raises(Unavailable, match="the local provider has no page-size") as caught:
        choose("local", wanted, providers={"local": Able})
    assert "n7 asks for pages of 65536 bytes" in caught.value.detail


class Able(LocalProvider):
    """One whose emulator is there, whatever this machine has."""

    def unavailable(self, spec: ClusterSpec | None = None) -> Unavailable | None:
        return None

    def capabilities(self) -> frozenset[Capability]:
        return frozenset({Capability.FOREIGN_ARCH})


@pytest.mark.parametrize("provider", [uml_provider(), qemu_provider()], ids=lambda provider: provider.name)
def test_a_node_gets_the_usual_kernel_where_that_fits_and_else_one_of_its_size(provider: GuestProvider) -> None:
    names = {size: provider._kernel_for(Make(Arch.AARCH64, size)) for size in (None, 4 * KIB, 16 * KIB, 64 * KIB)}
    assert list(names.values()) == ["cloud", "cloud", "pages16k", "pages64k"]
    assert provider._kernel_for(Make(Arch.X86_64, 4 * KIB)) == provider.kinds.of(Make(Arch.X86_64)).kernel


def test_a_size_without_a_kernel_is_refused_before_anything_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cephlab.lab.images.recipe.RecipeBook.kernels_with", lambda *_arguments: ())
    provider = replace(qemu_provider(), missing=lambda _archs: None)
    refused = provider.unavailable(spec(64 * KIB))
    assert refused is not None
    assert "n1 asks for pages of 65536 bytes" in refused.what
    assert "page_bytes = 65536" in refused.detail


def test_only_where_qemu_is_there_are_sizes_of_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cephlab.lab.images.tools.SystemTools.locate", lambda _self, _name: None)
    assert Capability.PAGE_SIZE not in qemu_provider().capabilities() | uml_provider().capabilities()
    monkeypatch.setattr("cephlab.lab.images.tools.SystemTools.locate", lambda _self, name: f"/usr/bin/{name}")
    assert Capability.PAGE_SIZE in qemu_provider().capabilities() & uml_provider().capabilities()


def test_a_lab_remembers_who_has_which_pages_and_refuses_others(tmp_path: Path) -> None:
    kernel = Kernel("pages64k", Arch.AARCH64, "k", tmp_path, tmp_path / "vmlinuz", "6.12", tmp_path, 64 * KIB)
    parts = Parts(kernel, tmp_path / "initramfs", tmp_path / "root")
    run = Runs(Home(tmp_path / "home")).create("qemu")
    makes = {Make(Arch.AARCH64): parts, Make(Arch.AARCH64, 64 * KIB): parts}
    lab = GuestLab(run, qemu_provider().kinds, makes, "10.78.0.0/24", 1.0)
    with pytest.raises(SpecError, match="n3 asks for pages of 16384 bytes") as caught:
        lab.add_node(Node("n3", Arch.AARCH64, page_bytes=16 * KIB))
    assert "65536" in caught.value.detail
    assert [Make.parse(name) for name in lab.state["parts"]] == list(makes)
    old = {"arch": "aarch64", "address": "10.78.0.10", "index": 0, "cores": None, "memory_bytes": None, "slots": {}}
    lab.restore({"nodes": {"n0": old, "n1": {**old, "index": 1, "page_bytes": 64 * KIB}}})
    assert [lab.host(name).node.page_bytes for name in ("n0", "n1")] == [None, 64 * KIB]


def test_a_topology_gives_it_to_its_aarch64_nodes() -> None:
    spec = Topology(native=1, foreign=1, page_bytes=16 * KIB).spec("reef")
    assert {node.arch: node.page_bytes for node in spec.nodes} == {Arch.AARCH64: 16 * KIB, OTHER: None}


def test_a_kernel_that_would_have_to_be_built_is_refused_with_the_command(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="pages64k for aarch64 has not been built") as caught:
        KernelStore(Home(tmp_path)).get("pages64k", Arch.AARCH64)
    assert "cephlab image kernel pages64k" in caught.value.hint


def test_a_launch_names_the_node_whose_kernel_has_not_been_built(tmp_path: Path) -> None:
    run = Runs(Home(tmp_path)).create("qemu")
    launched = qemu_provider().launch(spec(64 * KIB), {}, run)
    with pytest.raises(Unavailable, match="has not been built") as caught, launched:
        pass
    assert caught.value.detail.startswith("n1 asks for pages of 65536 bytes; ")


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("page_bytes = 65536", "page_bytes = 32768", "page_bytes: got 32768, wanted for aarch64"),
        ('config = "pages64k.config"', 'config = "../pages64k.config"', "kernels.pages64k.config"),
    ],
)
def test_a_recipe_of_a_kernel_that_cannot_be_is_refused(tmp_path: Path, old: str, new: str, complaint: str) -> None:
    text = RECIPES.read_text()
    assert old in text
    (tmp_path / "recipes.toml").write_text(text.replace(old, new))
    with pytest.raises(SpecError, match=complaint):
        read_recipes(tmp_path / "recipes.toml")


def test_what_a_kernel_is_built_from_is_in_its_digest_and_its_pages_are_not() -> None:
    kernel = read_recipes().find_kernel("pages64k", Arch.AARCH64)
    assert replace(kernel, config=kernel.config + "\n").digest != kernel.digest
    fetched = replace(kernel, config="")
    assert replace(fetched, page_bytes=16 * KIB).digest == fetched.digest


@dataclass
class Builder:
    """tar that unpacks nothing, and a make that leaves what the kernel's would. takes: what the source knows of."""

    takes: str
    calls: list[tuple[str, ...]] = field(default_factory=list)

    def locate(self, program: str) -> str | None:
        return f"/fake/{program}"

    def run(
        self,
        argv: Sequence[str],
        *,
        timeout_s: float,
        env: Mapping[str, str] | None = None,
        check: bool = True,
    ) -> Result:
        assert env is not None
        assert Path(env["CEPHLAB_BUILD"]).is_dir(), "a killed build must be found by its scratch folder"
        self.calls.append(tuple(argv))
        made = next((Path(word.removeprefix("O=")) for word in argv if word.startswith("O=")), None)
        if made is not None and argv[-1] == "allnoconfig":
            (made / ".config").write_text(self.takes)
        elif made is not None:
            for name, content in {
                "arch/arm64/boot/Image": "kernel",
                "include/config/kernel.release": "6.12.1-x\n",
            }.items():
                (made / name).parent.mkdir(parents=True)
                (made / name).write_text(content)
        return Result(tuple(argv), 0, b"", b"")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    root = tmp_path / "image/root"
    (root / "usr/src").mkdir(parents=True)
    (root / "usr/src/linux-source-6.12.tar.xz").write_bytes(b"source")
    (root / "usr/bin").mkdir()
    (root / "usr/bin/busybox").write_bytes(b"busybox")
    (root / "usr/bin/as").write_bytes(b"what the source's package depends on")
    return root


def built(tools: Builder, source: Path, config: str) -> None:
    recipe = KernelRecipe("kernel-x", "trixie", Arch.AARCH64, (), (), (), 64 * KIB, config)
    scratch = source.parent.parent
    build_kernel(tools, recipe, source, scratch, lambda _line: None)


def test_a_build_leaves_the_kernel_in_the_place_of_its_source(source: Path) -> None:
    tools = Builder("CONFIG_A=y\nCONFIG_B=y\n")
    built(tools, source, "# wanted\nCONFIG_A=y\n")
    held = sorted(str(path.relative_to(source)) for path in source.rglob("*") if path.is_file())
    assert held == ["boot/vmlinuz-6.12.1-x", "usr/bin/busybox"]
    assert (source / "usr/lib/modules/6.12.1-x").is_dir()
    assert [Path(call[0]).name for call in tools.calls] == ["tar", "make", "make"]
    cross = "" if host_arch() is Arch.AARCH64 else "aarch64-linux-gnu-"
    assert all({"ARCH=arm64", f"CROSS_COMPILE={cross}"} <= set(call) for call in tools.calls[1:])


def test_a_setting_that_the_source_does_not_take_ends_the_build_before_it_compiles(source: Path) -> None:
    tools = Builder("# CONFIG_A is not set\n")
    with pytest.raises(LabBroken, match="does not accept its configuration") as caught:
        built(tools, source, "CONFIG_A=y\n")
    assert "CONFIG_A=y" in caught.value.detail
    assert len(tools.calls) == 2


def test_packages_without_a_source_are_told(source: Path) -> None:
    (source / "usr/src/linux-source-6.12.tar.xz").unlink()
    with pytest.raises(LabBroken, match="no kernel source"):
        built(Builder(""), source, "CONFIG_A=y\n")


def test_memory_is_read_from_the_pools() -> None:
    pools = pools_of(
        {"mempool": {"by_pool": {"osd": {"items": 1, "bytes": 10}, "osd_pglog": {"items": 2, "bytes": 5}}}}
    )
    assert MemoryUse(100, pools).beyond == 85


def watched(first: int, second: int, *, operations: int, page_bytes: int = 64 * KIB) -> Outcome:
    """The verdict on one OSD that held so many MiB at the ends of the halves."""
    history = History()
    recorder = history.recorder("s")
    held = {"before": 100, "first": first, "second": second, "rested": second, "released": second}
    moments = {name: {0: MemoryUse(size * MIB, {"osd": 50 * MIB})} for name, size in held.items()}
    for half in pages.HALVES:
        pages.witness(recorder, half, {0: operations}, page_bytes)
    pages.judge(recorder, moments, 0, "osd.0")
    return CHECKS["figures"](history.events()).outcome


ENOUGH = pages.GROWTH_BYTES // (64 * KIB)


def test_memory_that_settles_passes() -> None:
    assert watched(300, 320, operations=ENOUGH) is Outcome.PASS


def test_a_page_lost_with_each_operation_fails() -> None:
    lost = 2 * ENOUGH * 64 * KIB // MIB
    assert watched(300, 300 + lost, operations=2 * ENOUGH) is Outcome.FAIL


def test_more_than_the_target_fails_however_slowly_it_came() -> None:
    assert watched(1090, 1100, operations=ENOUGH) is Outcome.FAIL


def test_the_load_is_enough_for_pages_of_every_size() -> None:
    assert min(pages.PAGES.values()) * pages.WRITES >= pages.GROWTH_BYTES


def test_too_little_load_shows_nothing() -> None:
    assert watched(300, 301, operations=ENOUGH - 1) is Outcome.INCONCLUSIVE
    assert watched(300, 301, operations=ENOUGH, page_bytes=16 * KIB) is Outcome.INCONCLUSIVE
