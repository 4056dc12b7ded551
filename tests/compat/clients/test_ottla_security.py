"""`ottla user`, `ottla acl` and `ottla quota` print the same for a node and for Apache Kafka."""

from collections.abc import Iterator
from typing import Final

import pytest

from tests.compat.command_line import ottla
from tests.compat.java.jars import reason_to_skip
from tests.compat.servers import Server, start_kafka, start_ottla

pytestmark = pytest.mark.slow
AUTHORIZER_SETTINGS: Final = (
    "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users=User:ANONYMOUS",
)

# Each command with its exit code and its output.
COMMANDS: Final = (
    ("user list", 0, ""),
    (
        "user create anna --iterations 8192 --mechanism SCRAM-SHA-256 --password-file -",
        0,
        "created anna with S",
    ),
    ("user create anna --password-file -", 0, "created anna with SCRAM-SHA-512\n"),
    ("user create anna --password-file -", 1, "ottla: User anna has SCRAM-SHA-512 already."),
    (
        "user list",
        0,
        "user  mechanism      iterations\nanna  SCRAM-SHA-256  8192\nanna  SCRAM-SHA-512  4096\n",
    ),
    (
        "user password anna --password-file -",
        0,
        "changed the password of anna for SCRAM-SHA-256 and SCRAM-SHA-512\n",
    ),
    ("user password bob --password-file -", 1, "ottla: There is no SCRAM user bob;"),
    ("user delete anna --mechanism SCRAM-SHA-256", 0, "deleted SCRAM-SHA-256 of anna\n"),
    ("user delete anna", 0, "deleted anna\n"),
    ("user delete anna", 1, "ottla: There is no SCRAM user anna;"),
    ("acl list", 0, ""),
    ("acl create --allow User:anna --producer --topic orders --host ::1", 0, "created 3 ACLs\n"),
    (
        "acl create --allow User:anna --producer --topic orders --host ::1",
        0,
        "created 0 ACLs; 3 already existed",
    ),
    ("acl create --deny User:* --operation delete --topic or --pattern-type prefixed", 0, "created 1 ACL\n"),
    (
        "acl list --topic orders --pattern-type match",
        0,
        "principal  permission  operation  resource  name    pattern   host\n"
        "User:*     deny        delete     topic     or      prefixed  *\n"
        "User:anna  allow       write      topic     orders  literal   0:0:0:0:0:0:0:1\n"
        "User:anna  allow       create     topic     orders  literal   0:0:0:0:0:0:0:1\n"
        "User:anna  allow       describe   topic     orders  literal   0:0:0:0:0:0:0:1\n",
    ),
    (
        "acl check --principal User:anna --operation write,delete --topic orders --host ::1",
        1,
        "",
    ),
    ("acl delete --principal User:anna --yes", 0, "deleted 3 ACLs\n"),
    ("acl delete --topic or --pattern-type prefixed --yes", 0, "deleted 1 ACL\n"),
    ("quota list", 0, ""),
    (
        "quota set --user anna --client-id app producer_byte_rate=1024",
        0,
        "changed producer_byte_rate of user anna",
    ),
    ("quota set --user-default request_percentage=12.5 --dry-run", 0, "would change request_percentage"),
    (
        "quota set --user-default request_percentage=12.5",
        0,
        "changed request_percentage of default user to 12.5",
    ),
    ("quota set --user anna no_such_quota=1", 1, "ottla: User anna cannot have the quota no_such_quota."),
    (
        "quota list",
        0,
        "user       client id  ip  quota               value\n"
        "<default>  -          -   request_percentage  12.5\n"
        "anna       app        -   producer_byte_rate  1024\n",
    ),
    (
        "quota list --effective --user anna --client-id app",
        0,
        "quota                     value  set for                   shared by\n"
        "producer_byte_rate        1024   user anna, client id app  clients app of user anna\n"
        "consumer_byte_rate        -      -                         -\n"
        "request_percentage        12.5   default user              all clients of user anna\n"
        "controller_mutation_rate  -      -                         -\n",
    ),
    ("quota delete --user anna", 1, "ottla: User anna has no quotas;"),
    (
        "quota delete --user anna --client-id app",
        0,
        "deleted producer_byte_rate of user anna, client id app\n",
    ),
    ("quota delete --user-default", 0, "deleted request_percentage of default user\n"),
)


@pytest.fixture(params=["ottla", pytest.param("kafka", marks=pytest.mark.java)])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Run a server with an authorizer, in which all clients of the test are super users."""
    if request.param == "kafka" and (reason := reason_to_skip()) is not None:
        pytest.skip(reason)
    starts = start_kafka if request.param == "kafka" else start_ottla
    started = starts(tmp_path_factory.mktemp("authorizer"), *AUTHORIZER_SETTINGS)
    yield started
    started.stop()


def test_the_commands_print_the_same_at_a_node_and_at_apache_kafka(server: Server) -> None:
    wrong = []

    for words, code, printed in COMMANDS:
        given = "secret\n" if "--password-file" in words else ""
        output = ottla(server.bootstrap, *words.split(), given=given, code=code)
        if not output.startswith(printed) or (not printed and output and not code):
            wrong.append((words, output))

    assert not wrong
