-- The store's name, made with it.
SELECT identity FROM {settings}
