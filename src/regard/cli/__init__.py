"""The command line: one file a command. Nothing here imports torch before a command runs."""


def main() -> None:
    """The entry point of the `regard` program."""
    from regard.cli.app import run

    run()
