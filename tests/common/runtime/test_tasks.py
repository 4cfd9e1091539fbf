import asyncio

from common.runtime.tasks import Tasks


async def ended(tasks: Tasks) -> None:
    while len(tasks):
        await asyncio.sleep(0)


async def fail() -> None:
    raise ValueError("broken")


async def test_a_failure_is_reported_with_the_tasks_name() -> None:
    failures: list[tuple[str, str]] = []
    tasks = Tasks(lambda name, error: failures.append((name, str(error))))
    tasks.spawn(fail(), "sweeper")
    await ended(tasks)
    assert failures == [("sweeper", "broken")]


async def test_without_a_callback_a_failure_reaches_the_loops_handler() -> None:
    seen: list[object] = []
    asyncio.get_running_loop().set_exception_handler(
        lambda loop, context: seen.append(context["exception"])
    )
    tasks = Tasks()
    tasks.spawn(fail(), "sweeper")
    await ended(tasks)
    assert [str(error) for error in seen] == ["broken"]


async def test_a_task_that_returned_is_forgotten() -> None:
    tasks = Tasks()
    short = tasks.spawn(asyncio.sleep(0), "short")
    assert len(tasks) == 1
    await ended(tasks)
    assert short.done()


async def test_cancel_all_waits_until_every_task_has_cleaned_up() -> None:
    cleaned: list[str] = []

    async def work(name: str) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            cleaned.append(name)

    failures: list[str] = []
    tasks = Tasks(lambda name, error: failures.append(name))
    for name in ("a", "b"):
        tasks.spawn(work(name), name)
    await asyncio.sleep(0)
    await tasks.cancel_all()
    assert sorted(cleaned) == ["a", "b"]
    assert len(tasks) == 0
    assert failures == []


async def test_a_task_may_cancel_all_others_without_cancelling_itself() -> None:
    tasks = Tasks()
    other = tasks.spawn(asyncio.sleep(60), "other")
    leader = tasks.spawn(tasks.cancel_all(), "leader")
    await ended(tasks)
    assert other.cancelled()
    assert leader.done()
    assert not leader.cancelled()
