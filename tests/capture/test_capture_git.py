import os
import shutil
import subprocess

import pytest
from capture_trees import contents, make, posix

from colony_memory.capture import LeftOut, Note, read_folder, write_folder
from colony_memory.capture._metadata import split_documents
from colony_memory.capture.git import NotBundled, make_bundle
from colony_memory.exceptions import ColonyMemoryError

pytestmark = pytest.mark.skipif(not shutil.which("git"), reason="needs git")

AUTHOR = ("-c", "user.name=agent", "-c", "user.email=agent@example.org", "-c", "init.defaultBranch=main")


def run(where, *arguments):
    done = subprocess.run(["git", "-C", where, *AUTHOR, *arguments], check=True, capture_output=True, text=True)
    return done.stdout


@pytest.fixture
def repository(tmp_path):
    """A folder with a repository in it: two branches, a tag, a stash and a change that is not committed."""
    path = make(tmp_path / "src/repo", {"plan.md": b"one\n"})
    make(tmp_path / "src", {"MEMORY.md": b"m"})
    run(path, "init", "-q")
    run(path, "add", ".")
    run(path, "commit", "-qm", "first")
    run(path, "tag", "v1")
    run(path, "branch", "idea")
    make(path, {"plan.md": b"stashed\n"})
    run(path, "stash", "-q")
    make(path, {"plan.md": b"two\n"})
    run(path, "commit", "-qam", "second")
    make(path, {"plan.md": b"three\n"})
    return path


def bundle_of(folder):
    capture = read_folder(folder, git=True)
    assert (capture.left_out, capture.notes) == ((), ())
    content = split_documents(capture.documents)[0]["repo/.git.bundle"]
    assert isinstance(content, bytes)
    return content


def why_left_out(capture):
    (entry,) = capture.left_out
    assert entry.name == ".git"
    return entry.reason


def test_what_was_restored_is_saved_again_once(repository, tmp_path):
    """The bundle of an older backup may stand beside a repository that has gone on."""
    (repository / ".git.bundle").write_bytes(bundle_of(repository.parent))
    run(repository, "commit", "-qam", "third")
    assert bundle_of(repository.parent) != (repository / ".git.bundle").read_bytes()
    # Where it has something else, that must not be lost.
    (repository / ".git.bundle").write_bytes(bundle_of(repository.parent))
    run(repository, "reset", "-q", "--hard", "HEAD~2")
    empty, option = b"# v2 git bundle\n\n", b"# v2 git bundle\n--output=/x HEAD\n\nPACK"
    for other in ((repository / ".git.bundle").read_bytes(), b"", b"mine", b"# v2 git bundle\n", empty, option):
        (repository / ".git.bundle").write_bytes(other)
        capture = read_folder(repository.parent, git=True)
        reason = "'.git.bundle' beside it is another: fetch from it or rename it"
        assert capture.left_out == (LeftOut("repo/.git", reason),)
        write_folder(capture.documents, tmp_path / "dst", force=True)
        assert (tmp_path / "dst/repo/.git.bundle").read_bytes() == other


def test_a_repository_without_a_commit(tmp_path):
    src = make(tmp_path / "src", {"a.md": b"a"})
    run(src, "init", "-q")
    capture = read_folder(src, git=True)
    assert contents(capture) == {"a.md": "a"}
    assert capture.notes == (Note(".git", "git repository without a commit: there is nothing to save"),)
    assert capture.left_out == ()


def test_a_worktree_leads_to_its_repository(repository, tmp_path):
    run(repository, "worktree", "add", "-q", str(repository.parent / "tree"), "idea")
    assert [note.name for note in read_folder(repository.parent).notes] == ["repo/.git", "tree/.git"]
    both = split_documents(read_folder(repository.parent, git=True).documents)[0]
    assert {"repo/.git.bundle", "tree/.git.bundle"} <= set(both)
    # From the worktree alone, the repository is outside of the folder.
    capture = read_folder(repository.parent / "tree", git=True)
    assert set(contents(capture)) == {"plan.md"}
    assert why_left_out(capture).startswith("leads out of the folder, to '")


def plant(repository, private, what):
    """Something in a stranger's repository that leads to the user's, or holds git up."""
    if what == "gitdir":
        repository.write_text(f"gitdir: {private}\n")
        return
    run(repository.parent, "init", "-q")
    if what == "commondir":
        (repository / "commondir").write_text(f"{private}\n")
    elif what == "alternates":
        (repository / "objects/info/alternates").write_text(f"{private / 'objects'}\n")
        (repository / "refs/heads/main").write_text(run(private.parent, "rev-parse", "HEAD"))
    elif what == "a link":
        shutil.rmtree(repository / "refs")
        (repository / "refs").symlink_to(private / "refs")
    elif what == "a link to objects":
        (repository / "objects/pack/x.pack").symlink_to(private / "HEAD")
    else:
        os.mkfifo(repository / "refs/heads/main")


@posix
@pytest.mark.parametrize(
    ("what", "why"),
    [
        ("gitdir", "leads out of the folder"),
        ("commondir", "leads out of the folder"),
        ("alternates", "borrows objects from another repository"),
        ("a link", "'refs' in it is not a plain file"),
        ("a link to objects", "is not a plain file"),
        ("a pipe", "'refs/heads/main' in it is not a plain file"),
    ],
)
def test_a_strangers_repository_brings_nothing_of_the_users(repository, tmp_path, what, why):
    folder = make(tmp_path / "stranger", {"README.md": b"hi"})
    plant(folder / ".git", repository / ".git", what)
    capture = read_folder(folder, git=True)
    assert set(contents(capture)) == {"README.md"}
    assert why in why_left_out(capture)


@posix
def test_a_strangers_repository_runs_nothing(tmp_path):
    folder = make(tmp_path / "stranger", {"README.md": b"hi"})
    run(folder, "init", "-q")
    run(folder, "add", ".")
    run(folder, "commit", "-qm", "first")
    ran = tmp_path / "ran"
    program = make(tmp_path, {"program": f"#!/bin/sh\ntouch {ran}\n".encode()}) / "program"
    program.chmod(0o755)
    for key in ("core.fsmonitor", "core.alternateRefsCommand", "core.sshCommand", "core.pager", "core.editor",
                "pager.rev-list", "pager.bundle", "uploadpack.packObjectsHook", "gc.recentObjectsHook", "diff.external",
                "core.askPass", "credential.helper", "core.gitProxy", "alias.bundle", "alias.rev-list"):  # fmt: skip
        run(folder, "config", key, str(program))
    for hook in ("post-index-change", "reference-transaction", "pre-auto-gc", "post-checkout"):
        (folder / ".git/hooks" / hook).write_bytes(program.read_bytes())
        (folder / ".git/hooks" / hook).chmod(0o755)
    ran.unlink(missing_ok=True)  # git itself has run what it was told to when the rest was set
    assert ".git.bundle" in split_documents(read_folder(folder, git=True).documents)[0]
    assert not ran.exists()


def test_a_bundle_that_a_snapshot_cannot_hold_is_left_out(repository):
    capture = read_folder(repository, git=True, max_bytes=500)
    assert set(contents(capture)) == {"plan.md"}
    assert "more than a snapshot has room for" in capture.left_out[0].reason


def test_a_shallow_clone_is_left_out(repository, tmp_path):
    run(tmp_path, "clone", "-q", "--depth=1", repository.as_uri(), "shallow")
    capture = read_folder(tmp_path / "shallow", git=True)
    assert set(contents(capture)) == {"plan.md"}
    assert "git fetch --unshallow" in why_left_out(capture)


def test_what_git_cannot_do_is_left_out(repository, monkeypatch):
    def reason():
        return why_left_out(read_folder(repository, git=True))

    with monkeypatch.context() as patch:
        patch.setenv("PATH", "")
        assert reason() == "git cannot be run: No such file or directory"
    with monkeypatch.context() as patch:

        def slow(command, **options):
            raise subprocess.TimeoutExpired("git", options["timeout"])

        patch.setattr(subprocess, "run", slow)
        assert reason() == "git took longer than 600 seconds"
    with monkeypatch.context() as patch:
        patch.setattr(
            subprocess, "run", lambda *_, **__: subprocess.CompletedProcess([], 3, stdout=b"", stderr=b"odd\n")
        )
        assert reason() == "git failed: exit code 3"
    shutil.rmtree(repository / ".git/objects")
    (repository / ".git/objects").mkdir()
    assert reason().startswith("git failed: ")


def test_variables_of_git_do_not_lead_elsewhere(repository, tmp_path, monkeypatch):
    expected = bundle_of(repository.parent)
    run(tmp_path, "init", "-q", "other")
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "other/.git"))
    assert bundle_of(repository.parent) == expected


@posix
def test_a_link_called_git_is_not_followed(repository):
    (repository / ".git").rename(repository / "elsewhere")
    (repository / ".git").symlink_to("elsewhere")
    capture = read_folder(repository, git=True)
    assert [entry.name for entry in capture.left_out] == [".git"]
    assert "elsewhere/HEAD" in capture.documents


@posix
def test_a_link_that_takes_the_place_of_a_repository_is_not_followed(repository, tmp_path):
    (repository / ".git").rename(tmp_path / "elsewhere")
    (repository / ".git").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(NotBundled, match="leads out of the folder"):
        make_bundle(repository / ".git", within=repository, limit=2**30)


def test_a_secret_in_a_bundle_is_not_seen_which_the_guide_says(repository):
    """Its objects are compressed."""
    token = "ghp_" + "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dE3fG5"
    make(repository, {"plan.md": token.encode()})
    run(repository, "commit", "-qam", "oops")
    make(repository, {"plan.md": b"clean\n"})
    assert read_folder(repository, git=True, secrets="stop").secrets == ()
    make(repository, {"plan.md": token.encode()})
    with pytest.raises(ColonyMemoryError, match=r"plan\.md:1: GitHub token"):
        read_folder(repository, git=True, secrets="stop")
