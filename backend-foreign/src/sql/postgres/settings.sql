SELECT version, longest_lease, identity FROM {store} WHERE id = 1
