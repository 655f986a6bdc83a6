"""The program that connects a kernel's initiator, on trees of files in place of the kernel's."""

from pathlib import Path

from cephlab.lab.blockstack import initiator_program


def test_a_connection_is_asked_for_in_the_kernels_words(tmp_path: Path) -> None:
    fabrics = tmp_path / "nvme-fabrics"
    fabrics.touch()
    request = {"do": "connect", "options": {"nqn": "a", "trsvcid": 4420, "data_digest": True}}
    assert initiator_program.answer(request, fabrics) == {"refused": ""}
    assert fabrics.read_text() == "nqn=a,trsvcid=4420,data_digest"


def test_a_discovery_page_names_subsystems_and_addresses() -> None:
    page = bytearray(1024 * 9)
    page[8] = 2
    for number in (1, 2):
        at = 1024 * number
        nqn, address = f"nqn.{number}".encode(), f"10.0.0.{number}".encode()
        page[at + 256 : at + 256 + len(nqn)] = nqn
        page[at + 512 : at + 512 + len(address)] = address
    assert initiator_program.entries(bytes(page)) == [["nqn.1", "10.0.0.1"], ["nqn.2", "10.0.0.2"]]


def test_the_kernels_command_has_its_size_and_places() -> None:
    command = initiator_program.COMMAND.pack(2, 0x1122334455667788, 9216, 0x70)
    assert len(command) == 72 == initiator_program.ADMIN_COMMAND >> 16 & 0x3FFF
    fields = [int.from_bytes(command[at:end], "little") for at, end in ((0, 1), (24, 32), (36, 40), (40, 44))]
    assert fields == [2, 0x1122334455667788, 9216, 0x70]


def controller(classes: Path, number: int, nqn: str, ana: str) -> None:
    folder = classes / "nvme" / f"nvme{number}"
    (folder / f"nvme0c{number}n1").mkdir(parents=True)
    (folder / f"nvme0c{number}n1/ana_state").write_text(f"{ana}\n")
    said = {
        "subsysnqn": nqn,
        "address": f"traddr=10.0.0.{number},trsvcid=4420,src_addr=10.0.0.9",
        "state": "live",
        "cntlid": str(number * 100 + 1),
        "queue_count": str(number + 2),
    }
    for name, value in said.items():
        (folder / name).write_text(f"{value}\n")


def test_an_initiator_tells_the_ways_of_its_volume_from_others(tmp_path: Path) -> None:
    controller(tmp_path, 0, "mine", "optimized")
    controller(tmp_path, 1, "mine", "inaccessible")
    controller(tmp_path, 2, "another", "optimized")
    for name in ("nvme0n1", "nvme0n2", "nvme0c0n1", "nvme0"):
        folder = tmp_path / "nvme-subsystem/nvme-subsys0" / name
        folder.mkdir(parents=True)
        (folder / "size").write_text("2048\n")
        (folder / "nsid").write_text(f"{name[-1]}\n")
    (tmp_path / "nvme-subsystem/nvme-subsys0/subsysnqn").write_text("mine\n")
    seen = initiator_program.answer({"do": "look", "nqn": "mine"}, classes=tmp_path)
    assert seen["device"] == "/dev/nvme0n1"
    assert seen["namespaces"]["2"] == {"device": "/dev/nvme0n2", "size_bytes": 1 << 20}
    paths = [(path["address"], path["controller"], path["ana"], path["queues"]) for path in seen["paths"]]
    assert paths == [("10.0.0.0", 1, "optimized", 1), ("10.0.0.1", 101, "inaccessible", 2)]
    initiator_program.answer({"do": "disconnect", "nqn": "mine"}, classes=tmp_path)
    ended = [(tmp_path / f"nvme/nvme{number}/delete_controller").exists() for number in range(3)]
    assert ended == [True, True, False]
