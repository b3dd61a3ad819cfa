"""Configuration: the recipe's schema, its loader, overrides, and error messages that name the nearest key."""
