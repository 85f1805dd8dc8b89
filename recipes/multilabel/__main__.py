"""`python -m recipes.multilabel`: the paper's five systems on Bibtex and Bookmarks."""

from recipes.multilabel.study import MultilabelStudy
from recipes.studies.command import study_command

app = study_command("recipes.multilabel", MultilabelStudy, ["bibtex", "bookmarks"])

if __name__ == "__main__":
    app()
