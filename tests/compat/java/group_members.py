"""Java consumers for the tests: JVMs with members of groups (GroupMembers.java)."""

from tests.compat.java.jars import KAFKA
from tests.compat.java.java_programs import java_program


def java_command(artifacts: tuple[str, ...] = KAFKA) -> list[str]:
    """Return the command that runs members."""
    return java_program("GroupMembers", artifacts)
