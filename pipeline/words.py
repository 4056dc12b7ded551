"""What the pipeline tells its user when something is the matter: a sentence, with the name of the option."""


class OptionError(ValueError):
    """An option, or a column that stands for one, that cannot be honoured.

    `option` is its name as the user writes it, `problem` the sentence's rest. It travels between Spark's
    processes, so both are its arguments.
    """

    def __init__(self, option: str, problem: str) -> None:
        super().__init__(option, problem)
        self.option = option
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.option}: {self.problem}"
