"""The model's free constants: what no lab of two cores can measure, each with a range, a prior and its source."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields
from functools import cache
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, with_config

from cephlab.lab.base.errors import SpecError

FITTED = Path(__file__).with_name("constants.json")
"""The fitted values, and each test bed's errors when left out; `cephlab validate-model --fit FILE` writes it."""


@dataclass(frozen=True)
class Prior:
    """What is known of a constant before any publication. spread: standard deviation of its logarithm.

    A spread of 0 fixes it: the publications at hand cannot determine it.
    """

    value: float
    spread: float
    low: float
    high: float
    source: str


def _free(value: float, spread: float, low: float, high: float, source: str) -> float:
    constant: float = field(default=value, metadata={"prior": Prior(value, spread, low, high, source)})
    return constant


@with_config(ConfigDict(extra="forbid"))
@dataclass(frozen=True)
class Constants:
    """Factors without a unit. Their defaults are the priors' values."""

    speed_exponent: float = _free(
        0.6, 0.4, 0.1, 1.0, "Ceph's path is bound by memory, system calls and locks: its speed grows less than SPECrate"
    )
    osd_cpu: float = _free(
        1.0, 0.25, 0.5, 1.6, "the lab's disks are memory and cost CPU; its virtual CPUs share cores with others"
    )
    byte_cpu: float = _free(
        1.3,
        0.3,
        1.0,
        3.0,
        "copies of large blocks share memory bandwidth when all cores are busy: STREAM, core by core",
    )
    gateway_cpu: float = _free(1.3, 0.35, 0.7, 3.0, "real clients sign, list and, with TLS, encrypt; the lab's do not")
    busy_thread: float = _free(
        0.5,
        0.35,
        0.15,
        1.0,
        "measured: with 512 instead of 8 in flight kv, messenger and aio threads of an OSD cost half an operation",
    )
    release_step: float = _free(
        1.1,
        0.03,
        0.9,
        1.3,
        "CPU of an image's write over that of the next release, Octopus to Reef; measured: Pacific 1.21 times Reef",
    )
    one_connection: float = _free(
        0.7,
        0.0,
        0.3,
        1.5,
        "measured: CPU of OSDs with one connection, or one operation, is 1 / 1.71 (read), 1 / 1.34 (write) of 32",
    )
    link_share: float = _free(
        0.9, 0.08, 0.6, 1.0, "flows on bonded and switched links collide: ECMP and LACP hash them"
    )
    incast: float = _free(
        0.8, 0.2, 0.5, 1.0, "part of that share that many senders to one receiver get: copies and shards meet at a port"
    )
    flash_full: float = _free(
        0.6,
        0.0,
        0.2,
        1.0,
        "data sheets rate random writes of a full disk (1); test disks are new, logs sequential (0); in between",
    )
    flash_bandwidth: float = _free(
        0.6, 0.3, 0.25, 1.0, "data sheets rate sequential writes; objects are random, so the disk also moves old data"
    )
    metadata_reads: float = _free(0.3, 0.0, 0.05, 1.0, "share of reads whose metadata is not in BlueStore's cache")


def priors() -> dict[str, Prior]:
    """Constant -> its prior."""
    return {item.name: item.metadata["prior"] for item in fields(Constants)}


class _Fitted(BaseModel):
    values: Constants


_Model = TypeVar("_Model", bound=BaseModel)


def load_json(path: Path, model: type[_Model]) -> _Model:
    """A part of the constants' file; SpecError where it does not fit."""
    try:
        return model.model_validate_json(path.read_bytes())
    except (OSError, ValueError) as error:
        raise SpecError(f"{path.name} is not the model's constants", str(error)) from error


@cache
def current() -> Constants:
    """The fitted values that ship; SpecError where one is out of its range."""
    constants = load_json(FITTED, _Fitted).values
    for name, prior in priors().items():
        value = getattr(constants, name)
        if not prior.low <= value <= prior.high:
            wanted = f"wanted {prior.low:g} to {prior.high:g}"
            raise SpecError(f"{FITTED.name}: {name} is out of its range", f"got {value:g}, {wanted}")
    return constants


def log_distance(constants: Constants) -> list[float]:
    """How far each constant is from its prior, in standard deviations of its logarithm."""
    return [
        math.log(getattr(constants, name) / prior.value) / prior.spread
        for name, prior in priors().items()
        if prior.spread
    ]
