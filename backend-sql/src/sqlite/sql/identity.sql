-- The store's random name, made with the store.
SELECT identity FROM {settings}
