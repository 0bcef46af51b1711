"""The command line. It reads arguments and shows answers; what it shows is made elsewhere."""


def main() -> None:
    """Run the `penstock` command."""
    from penstock.cli.commands import app

    app()
