"""Faults put into simulated runs: the metric that shows each, and what would refute it. (S70)"""

from typing import Any

from labs.config import OneRank, Slowness
from shardbook.training.settings import Settings
from shardbook.training.slowness import slow_link, slow_rank
from shardbook.training.stuck import hang
from shardbook.training.suspicions import Case, save_peak, whole_model_gather

Tables = dict[str, list[dict[str, Any]]]


def run_slow_link(config: Slowness, seed: int) -> Tables:
    """Return the tables of one slow link."""
    return _tables({"slow-link": slow_link(config.bench, config.where, config.times)})


def run_slow_rank(config: Slowness, seed: int) -> Tables:
    """Return the tables of one rank with slow data."""
    return _tables({"slow-rank": slow_rank(config.bench, config.where, config.times)})


def run_gather(config: Settings, seed: int) -> Tables:
    """Return the tables of a gather of the whole model at once."""
    return _tables({"whole-model-gather": whole_model_gather(config)})


def run_save(config: OneRank, seed: int) -> Tables:
    """Return the tables of a save that gathers on one rank."""
    return _tables({"save-peak": save_peak(config.settings, config.rank)})


def run_hang(config: OneRank, seed: int) -> Tables:
    """Return the tables of a rank that makes a wrong call, for each fault."""
    return _tables({fault: hang(config.settings, fault, config.rank) for fault in config.faults})


def _tables(cases: dict[str, Case]) -> Tables:
    """Return suspicions, metrics and trials; a row names its fault."""
    return {
        "suspicions": [
            {
                "fault": fault,
                "suspicion": case.suspicion,
                "metric": case.metric,
                "threshold": case.threshold,
                "threshold_is": case.threshold_is,
                "experiment": case.experiment,
            }
            for fault, case in cases.items()
        ],
        "metrics": [
            {
                "fault": fault,
                "metric": each.name,
                "healthy_low": each.low,
                "healthy_high": each.high,
                "faulty": each.faulty,
                "moved": each.moved,
                "shows": each.name == case.metric,
            }
            for fault, case in cases.items()
            for each in case.metrics
        ],
        "trials": [
            {
                "fault": fault,
                "really_wrong": each.wrong,
                "metric": each.metric,
                "alarms": each.metric > case.threshold,
                "predicted": each.predicted,
                "seen": each.seen,
                "refuted": each.refuted,
            }
            for fault, case in cases.items()
            for each in case.trials
        ],
    }
