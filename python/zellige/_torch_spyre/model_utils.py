"""Helpers for models."""


def load_model_to_spyre(model, device="spyre"):
    """The model on the device."""
    return model.to(device)
