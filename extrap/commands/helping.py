"""Commands whose errors name options, and groups whose help lists commands under headings."""

from __future__ import annotations

from typing import Any

import click

from extrap.commands.printing import say
from extrap.errors import know_options


class Command(click.Command):
    """A command whose errors name options, not arguments."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; messages name its options."""
        options: dict[str, str] = {}
        for param in self.params:
            if isinstance(param, click.Option) and param.name:
                option = max([*param.opts, *param.secondary_opts], key=len)
                name = option.removeprefix("--").replace("-", "_")
                options |= dict.fromkeys((param.name, name), option)
                if param.multiple:  # its argument takes several
                    options.setdefault(f"{name}s", option)
        know_options(options)
        return super().invoke(ctx)


class Group(click.Group):
    """A group whose help lists the commands under headings, and is printed if none is named."""

    def __init__(self, *args: Any, **attributes: Any) -> None:
        super().__init__(*args, **attributes)
        self._sections: dict[str, list[click.Command]] = {}

    def add_section(self, heading: str, *commands: click.Command) -> None:
        """Add commands, which the help lists under a heading."""
        self._sections[heading] = [*commands]
        for command in commands:
            self.add_command(command)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the arguments; without any, print the help."""
        if not args and not ctx.resilient_parsing:
            say(ctx.get_help())
            ctx.exit()
        return super().parse_args(ctx, args)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands, then the options."""
        self.format_commands(ctx, formatter)
        click.Command.format_options(self, ctx, formatter)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands under their headings, each with its whole first sentence."""
        width = max(map(len, self.commands), default=0)
        for heading, commands in self._sections.items():
            with formatter.section(heading):
                formatter.write_dl(
                    [
                        (f"{each.name:<{width}}", each.get_short_help_str(1_000).rstrip("."))
                        for each in commands
                    ]
                )
