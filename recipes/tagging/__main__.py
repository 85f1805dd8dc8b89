"""`python -m recipes.tagging`: the paper's five systems on the tags of images."""

from recipes.studies.command import study_command
from recipes.tagging.study import TaggingStudy

app = study_command("recipes.tagging", TaggingStudy, ["tagging"])

if __name__ == "__main__":
    app()
