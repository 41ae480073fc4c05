(owner = {shared} AND LOCATE(?2, readers) > 0)
