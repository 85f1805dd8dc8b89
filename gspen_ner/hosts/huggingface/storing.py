"""How a model is written, read and uploaded: with its tokenizer or vocabulary, and with a model card."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from huggingface_hub import HfApi
from transformers import PreTrainedModel

from gspen_ner.hosts.huggingface.config import GSPENConfig
from gspen_ner.hosts.huggingface.folder_checks import check_folder, check_sizes
from gspen_ner.hosts.huggingface.model_card import model_card
from gspen_ner.hosts.huggingface.readers import HUB_OPTIONS, Reader, load_reader


class StoredModel(PreTrainedModel):
    """A `PreTrainedModel` whose folder holds all that is needed to use it."""

    config_class = GSPENConfig
    config: GSPENConfig
    reader: Reader | None

    def save_pretrained(self, save_directory: Any, *args: Any, **kwargs: Any) -> None:
        """Write config.json, safetensors, the tokenizer (or vocabulary.json) and a model card."""
        if kwargs.pop("push_to_hub", False):
            raise ValueError("save first, then call push_to_hub, which uploads tokenizer and model card too")
        super().save_pretrained(save_directory, *args, **kwargs)
        if not kwargs.get("is_main_process", True):
            return
        folder = Path(save_directory)
        if self.reader is not None:
            self.reader.save(folder)
        (folder / "README.md").write_text(model_card(self.config), encoding="utf-8")

    @classmethod
    def from_pretrained(cls, name: Any, *args: Any, **kwargs: Any) -> Any:
        """Read a model; see transformers. Only safetensors are, and a folder is checked before.

        Raises:
            ValueError: for a folder that is not a model which can be read; it may come from anybody.
        """
        if kwargs.keys() & {"system", "terms"}:
            raise ValueError("from_pretrained loads a model as it is: give it other terms by with_terms")
        folder = Path(str(name), kwargs.get("subfolder") or "")
        if not folder.is_dir():
            return cls._read(name, *args, **kwargs)
        try:
            check_folder(folder)
            check_sizes(GSPENConfig.from_pretrained(folder), cls, folder)
            return cls._read(name, *args, **kwargs)
        except Exception as error:  # of any kind: config.json may say anything
            raise ValueError(f"{folder}: not a model that can be read: {error}") from error

    @classmethod
    def _read(cls, name: Any, *args: Any, **kwargs: Any) -> Any:
        kwargs["use_safetensors"] = True
        if "reader" not in kwargs:
            where = {option: kwargs[option] for option in HUB_OPTIONS if option in kwargs}
            config = kwargs.get("config") or GSPENConfig.from_pretrained(name, **where)
            kwargs["reader"] = load_reader(name, config, **where)
        return super().from_pretrained(name, *args, **kwargs)

    def push_to_hub(  # type: ignore[override]
        self,
        repo_id: str,
        *,
        private: bool | None = None,
        token: str | bool | None = None,
        commit_message: str = "Upload model",
        **options: Any,
    ) -> Any:
        """Upload what `save_pretrained` writes, with its model card (transformers would put another there).

        Args:
            repo_id: `"user/name"`; made if needed.
            private: whether a new repository is.
            token: of the hub.
            commit_message: of the upload.
            options: of `HfApi.upload_folder`, such as `revision` and `create_pr`.
        """
        api = HfApi(token=token)
        repo_id = api.create_repo(repo_id, private=private, exist_ok=True).repo_id
        with tempfile.TemporaryDirectory() as folder:
            self.save_pretrained(folder)
            return api.upload_folder(
                repo_id=repo_id, folder_path=folder, commit_message=commit_message, **options
            )
