"""DELETE and LIST in the model: operations on objects that move none of their content."""

import pytest

from cephlab.lab.base.errors import SpecError
from cephlab.tuning import placement
from cephlab.tuning.model import predict
from cephlab.tuning.trust import trust_in
from cephlab.tuning.work import work_for
from cephlab.tuning.workload import PAGE_BYTES, Shape
from tests.model_parts import demand, disks, machine, profile

DELETE = demand("delete", primary_s=0.002, replicas_s=0.002, writes=12, replicas=3)
LIST = demand("list", primary_s=0.002, replicas_s=0.004, replicas=3)
NODES = profile(machine(count=3, cores=4, gateways=1, disk=(disks(),)))


def test_a_page_costs_leaders_of_the_index_whichever_osds_they_were_measured_on() -> None:
    work = work_for([LIST], Shape("list", 4096, 10, 10))
    assert work.primary.cpu == pytest.approx(LIST.core_speed * 0.006)
    assert work.replica.cpu == 0


def test_names_do_not_depend_on_how_large_the_objects_are() -> None:
    rates = {size: predict([DELETE], NODES, Shape("delete", size, 10, 10)).ops for size in (4096, 4 << 20)}
    assert len(set(rates.values())) == 1


def test_nothing_else_stands_in_for_a_delete_and_it_for_nothing_else() -> None:
    puts = [demand("put"), demand("put", 65536)]
    with pytest.raises(SpecError, match="no measured demand fits delete"):
        predict(puts, NODES, Shape("delete", 4096, 10, 10))
    with pytest.raises(SpecError, match="no measured demand fits put"):
        predict([DELETE], NODES, Shape("put", 4096, 10, 10))


def test_no_content_is_on_the_wire_but_a_page_is() -> None:
    load = placement.loads(NODES, Shape("delete", 4 << 20, 10, 10))[0]
    gone = placement.wire(load, work_for([DELETE], Shape("delete", 4 << 20, 10, 10)))
    assert (gone.front_in, gone.front_out, gone.back_in, gone.back_out) == (0, 0, 0, 0)
    page = placement.wire(load, work_for([LIST], Shape("list", 4 << 20, 10, 10)))
    # Each of three nodes leads a third and has a third of the gateways: what it leads for gateways elsewhere, and all
    # that its own gateway answers to clients outside.
    assert page.front_out == pytest.approx(PAGE_BYTES * (1 / 3 * 2 / 3 + 1 / 3))


def test_a_delete_writes_what_was_measured_and_no_content() -> None:
    slow = profile(machine(count=3, cores=400, gateways=1, disk=(disks(write_iops=60),)))
    made = predict([DELETE], slow, Shape("delete", 4 << 20, 100, 10))
    # 12 writes of all OSDs together, on three disks of 60 a second.
    assert made.ceiling == pytest.approx(3 * 60 / 12, rel=0.01)


@pytest.mark.parametrize("operation", ["delete", "list"])
def test_what_nobody_published_is_said_never_to_have_been_validated(operation: str) -> None:
    assert trust_in(NODES, Shape(operation, 4096, 10, 10)).outside == (f"Never validated: {operation}.",)


def test_another_protection_than_was_measured_is_said() -> None:
    doubts = work_for([DELETE], Shape("delete", 4096, 10, 10, k=2, m=1)).doubts
    assert doubts == ("delete was measured on 3 copies only.",)
