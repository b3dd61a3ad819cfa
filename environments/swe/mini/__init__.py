"""The embedded tasks: bugs put into ``pocket``, a small package written for this. Nothing is downloaded."""
