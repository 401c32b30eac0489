"""Files of a workspace, run, cassette and adopted folder that somebody damaged or made up."""
