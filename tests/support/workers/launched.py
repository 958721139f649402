"""Jobs that a fork server runs: what each of them does is in its name."""

# No `from __future__ import annotations`: Dagster reads the annotations of this file as objects.

import os
import signal
import threading
import time

import dagster as dg

IMPORTED_BY = os.getpid()


@dg.op
def tell(context: dg.OpExecutionContext) -> None:
    context.log.info(f"imported by {IMPORTED_BY}, run by {os.getpid()}, nice {os.nice(0)}")


@dg.op
def crash() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@dg.op
def wait() -> None:
    time.sleep(60)


@dg.op
def be_deaf() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Event().wait(60)


@dg.op
def linger() -> None:
    time.sleep(3)


@dg.job(executor_def=dg.in_process_executor)
def telling() -> None:
    tell()


@dg.job(executor_def=dg.in_process_executor)
def crashing() -> None:
    crash()


@dg.job(executor_def=dg.in_process_executor)
def waiting() -> None:
    wait()


@dg.job(executor_def=dg.in_process_executor)
def deaf() -> None:
    be_deaf()


@dg.job(executor_def=dg.in_process_executor)
def lingering() -> None:
    linger()
