"""What a vault owes that somebody has to make first, such as a directory."""

from colony_memory import ColonyMemory
from colony_memory.exceptions import VaultMissing
from colony_memory.testing.conformance import check_refused


class UnmadeVaultTests:
    """The duties of a vault that is made once, on purpose, where none was made: whoever asks is told, and none is made.

    A subclass gives the fixture ``unmade``: a vault opened at a place where nobody made one.
    """

    def test_each_call_tells_that_there_is_no_vault(self, unmade):
        """Every method raises :class:`colony_memory.VaultMissing`, time and again: an upload makes no vault."""
        name = "cmem.default.latest.json"
        for method, *arguments in (
            ("vault_upload_file", name, "x"),
            ("vault_status",),
            ("vault_list_files",),
            ("vault_get_file", name),
            ("vault_delete_file", name),
            ("vault_upload_file_if", name, "x"),
            ("vault_list_prefix", "cmem."),
            ("vault_look_up_files", [name]),
        ):
            call = getattr(unmade, method, None)
            if call is not None:
                check_refused(method, VaultMissing, call, *arguments)

    def test_it_is_no_first_start(self, unmade):
        """A restore raises :class:`colony_memory.VaultMissing`, also with a default, which is for an empty vault."""
        memory = ColonyMemory(backend=unmade)
        check_refused("restore()", VaultMissing, memory.restore)
        check_refused("restore(default={})", VaultMissing, memory.restore, default={})
