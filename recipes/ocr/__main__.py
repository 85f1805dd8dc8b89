"""`python -m recipes.ocr`: the paper's five systems on words of letter images."""

from recipes.ocr.study import OCRStudy
from recipes.studies.command import study_command

app = study_command("recipes.ocr", OCRStudy, ["ocr"])

if __name__ == "__main__":
    app()
