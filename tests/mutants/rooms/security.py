"""Defects that leave a secret behind or reach the network."""

from mutants.mutant import Mutant

LEAVES = "tests/security/test_secrets_leave_nothing.py::test_no_flow_stores_a_secret"
REACHES = "tests/security/test_sockets.py::test_common_commands_open_no_network_connection"

MUTANTS = (
    Mutant(
        "manifest-keeps-the-password",
        "branchrank/index/build.py",
        "        settings=without_credentials(workspace.index_settings),",
        "        settings=workspace.index_settings,",
        (LEAVES,),
    ),
    Mutant(
        "embedding-errors-echo-the-header",
        "branchrank/embedders/server.py",
        '        text = Redactor(self.endpoint.secrets)(content.decode("utf-8", "replace"))\n'
        "        for secret in self.endpoint.secrets:  # The redactor ignores very short keys.\n"
        '            text = text.replace(secret, "[key]")\n',
        '        text = content.decode("utf-8", "replace")\n',
        (LEAVES,),
    ),
    Mutant(
        "a-command-phones-home",
        "branchrank/cli/retrieve.py",
        "    with open_workspace(data_dir, given_flags(), quiet=quiet) as workspace:\n",
        "    import contextlib\n    import urllib.request\n\n    with contextlib.suppress(OSError):\n"
        '        urllib.request.urlopen("https://updates.example/version", timeout=1)\n'
        "    with open_workspace(data_dir, given_flags(), quiet=quiet) as workspace:\n",
        (REACHES,),
    ),
)
