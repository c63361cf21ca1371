# SPDX-License-Identifier: Apache-2.0
"""After an accident of the plane or of user code: the loader goes on, or says clearly why not."""

import os
import signal
import threading

import pytest
import support
from datasets import D
from support import wait_until

from stoker import errors
from stoker.torch import DistributedDataLoader

pytestmark = pytest.mark.limit(60)


def _same(i):
    return i


def _end_dataserver(plane):
    """Killed while no iteration runs."""
    server = plane.processes("dataserver")[0].pid
    os.kill(server, signal.SIGKILL)
    wait_until(lambda: not plane.processes("dataserver"), 10, "the DataServer to end")
    wait_until(lambda: not plane.processes("python-worker"), 10, "its workers to end")


@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize("then", ["same loader", "another loader", "closed loader"])
def test_dataserver_killed_between_iterations(plane, persistent, then):
    options = dict(batch_size=4, num_workers=2, persistent_workers=persistent)
    loader = DistributedDataLoader(D(_same, 16), **options)
    expected = [batch.tolist() for batch in loader]
    _end_dataserver(plane)
    if then == "closed loader":
        loader.close()
    elif then == "another loader":
        loader = DistributedDataLoader(D(_same, 16), **options)
    for _ in range(2):
        try:
            got = [batch.tolist() for batch in loader]
        except errors.DataServerError:  # the end was not noticed before iter() was over: once
            got = [batch.tolist() for batch in loader]
        assert got == expected


class _Mute(Exception):
    """Neither its text nor its repr can be made."""

    def __str__(self):
        raise ValueError("no text")

    __repr__ = __str__


def _steps(loader):
    iterator, found = iter(loader), []
    while True:
        try:
            found.append(next(iterator).tolist())
        except StopIteration:
            return found
        except Exception as error:
            found.append(error)


def _raises(kind, bad=5):
    def f(i):
        if i == bad:
            raise kind
        return i

    return f


def test_exception_without_a_text_is_an_error_of_its_step():
    found = _steps(DistributedDataLoader(D(_raises(_Mute()), 8), batch_size=2, num_workers=1))
    assert found[:2] == [[0, 1], [2, 3]] and found[3:] == [[6, 7]]
    assert isinstance(found[2], Exception) and found[2].sample_key == 5


@pytest.mark.parametrize("workers", [0, 1])
def test_text_of_skipped_sample_is_cut_and_never_fails(workers, caplog):
    def f(i):
        if i in (1, 3):
            raise _Mute() if i == 1 else ValueError("x" * 100_000)
        return i

    assert _steps(DistributedDataLoader(D(f, 4), batch_size=4, num_workers=workers, on_error="skip")) == [[0, 0, 2, 2]]
    texts = [record.getMessage() for record in caplog.records if "was skipped" in record.getMessage()]
    assert len(texts) == 2 and "_Mute" in texts[0] and max(map(len, texts)) < 500


class _Own(BaseException):
    pass


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt, GeneratorExit, _Own])
def test_base_exception_of_a_dataset_is_an_error_of_its_step(kind):
    found = _steps(DistributedDataLoader(D(_raises(kind("enough")), 8), batch_size=2, num_workers=1))
    assert found[:2] == [[0, 1], [2, 3]] and found[3:] == [[6, 7]]
    assert type(found[2]) is RuntimeError and found[2].sample_key == 5
    assert f"Caught {kind.__name__} in DataLoader worker process 0 (sample 5)" in str(found[2])
    assert "Traceback" in str(found[2]) and "enough" in str(found[2])


def test_base_exception_of_collate_and_of_worker_init_fn():
    def leave(argument):
        raise SystemExit(3)

    for argument in ("collate_fn", "worker_init_fn"):
        found = _steps(DistributedDataLoader(D(_same, 4), batch_size=2, num_workers=1, **{argument: leave}))
        assert [type(step) for step in found] == [RuntimeError, RuntimeError] and "Caught SystemExit" in str(found[0])


@pytest.mark.parametrize("workers", [0, 1])
def test_stop_iteration_of_a_dataset_does_not_end_the_epoch(workers):
    found = _steps(DistributedDataLoader(D(_raises(StopIteration()), 8), batch_size=2, num_workers=workers))
    assert found[:2] == [[0, 1], [2, 3]] and found[3:] == [[6, 7]]
    assert type(found[2]) is RuntimeError and found[2].sample_key == 5
    assert "sample 5 raised StopIteration" in str(found[2])


@pytest.mark.parametrize("workers", [0, 1])
def test_one_iteration_in_two_threads_is_refused(workers, tmp_path):
    go = tmp_path / "go"

    def f(i):
        if i == 2:
            wait_until(go.exists, 30, "the other thread to be refused")
        return i

    iterator = iter(DistributedDataLoader(D(f, 4), batch_size=1, num_workers=workers))
    assert [next(iterator).item() for _ in range(2)] == [0, 1]
    got = []
    thread = threading.Thread(target=lambda: got.append(next(iterator).item()))
    thread.start()
    wait_until(iterator._in_call.locked, 10, "next() in the thread")
    with pytest.raises(errors.CallerError, match="belongs to one thread"):
        next(iterator)
    go.touch()
    thread.join(30)
    assert got == [2] and next(iterator).item() == 3


@pytest.mark.parametrize("persistent", [False, True])
def test_iteration_of_the_parent_is_refused_in_a_child(runtime, persistent):
    process = runtime.script(f"""
        import os
        from stoker.torch import DistributedDataLoader
        class Data:
            def __len__(self): return 4
            def __getitem__(self, i): return i
        loader = DistributedDataLoader(Data(), num_workers=1, persistent_workers={persistent})
        iterator = iter(loader)
        next(iterator)
        child = os.fork()
        if child == 0:
            try:
                next(iterator)
            except Exception as error:
                print(type(error).__name__, error, flush=True)
            print([batch.item() for batch in loader], flush=True)
            import stoker._plane
            stoker._plane.close()
            os._exit(0)
        os.waitpid(child, 0)
        print([batch.item() for batch in iterator], flush=True)
    """)
    out = support.finish_well(process, 50)
    assert "CallerError" in out and "iterate the loader again in the child" in out
    assert "[0, 1, 2, 3]" in out and "[1, 2, 3]" in out.splitlines()[-1]
