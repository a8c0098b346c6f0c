"""`python -m ccmix.kibana >elk/kibana/ccmix.ndjson` writes the dashboards."""

import sys

from ccmix.kibana.file import ndjson

sys.stdout.write(ndjson())
