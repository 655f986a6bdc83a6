"""What an error tells its reader to do can be done where cephlab is installed too."""

from pathlib import Path

from cephlab.lab.base.errors import SpecError, page_paths


def test_an_installed_page_is_named_by_its_path(tmp_path: Path) -> None:
    (tmp_path / "docs" / "measured").mkdir(parents=True)
    for name in ("docs/attach.md", "docs/measured/model.md"):
        (tmp_path / name).touch()
    hint = "see docs/attach.md: may-break; docs/measured/model.md, docs/none.md"
    wanted = f"see {tmp_path}/docs/attach.md: may-break; {tmp_path}/docs/measured/model.md, docs/none.md"
    assert page_paths(hint, tmp_path) == wanted
    # An error that was told in another's words comes by here again.
    assert page_paths(wanted, tmp_path) == wanted


def test_a_checkouts_page_is_named_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "attach.md").touch()
    (tmp_path / "docs").symlink_to("real")
    assert page_paths("see docs/attach.md", tmp_path) == "see docs/attach.md"
    assert SpecError("no", hint="see docs/attach.md").hint == "see docs/attach.md"
