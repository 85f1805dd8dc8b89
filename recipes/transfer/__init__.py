"""The pretrained document term: how it is learned, and how it does on models and corpora it has not seen.

python -m recipes.transfer base CORPUS OUTPUT --library flair      train a base model with the library alone
python -m recipes.transfer learn RUN RUN ... --output FILE         learn the term on finished runs
python -m recipes.transfer compare BASE CORPUS --term FILE         F1 before and after the upgrade
"""
