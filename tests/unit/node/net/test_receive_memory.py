"""The budget of receive memory: bounded, fair, and free of deadlock."""

from ottla.node.net.receive_memory import ReceiveMemory


def test_memory_is_given_while_there_is_some() -> None:
    memory = ReceiveMemory(100)

    assert memory.reserve("a", 60, lambda: None)
    assert memory.used_bytes == 60


def test_the_first_to_overdraw_goes_on_and_the_second_waits() -> None:
    memory = ReceiveMemory(100)
    granted: list[str] = []
    memory.reserve("a", 60, lambda: None)
    memory.reserve("b", 30, lambda: None)

    assert memory.reserve("a", 60, lambda: granted.append("a"))
    assert not memory.reserve("b", 60, lambda: granted.append("b"))
    assert memory.reserve("a", 120, lambda: granted.append("a")), "its frame is half received"
    assert granted == []


def test_a_waiting_owner_is_granted_memory_when_the_debtor_has_settled() -> None:
    memory = ReceiveMemory(100)
    granted: list[str] = []
    memory.reserve("a", 90, lambda: None)
    memory.reserve("a", 60, lambda: None)
    memory.reserve("b", 60, lambda: granted.append("b"))
    memory.reserve("c", 10, lambda: granted.append("c"))

    memory.release(60)
    memory.settle("a")

    assert granted == ["b"], "c waits its turn behind b, which overdraws now"
    memory.release(90)
    memory.settle("b")
    assert granted == ["b", "c"]


def test_an_owner_that_is_gone_no_longer_waits() -> None:
    memory = ReceiveMemory(100)
    granted: list[str] = []
    memory.reserve("a", 150, lambda: None)
    memory.reserve("b", 60, lambda: granted.append("b"))

    memory.settle("b")
    memory.release(150)
    memory.settle("a")

    assert granted == []
    assert memory.used_bytes == 0
