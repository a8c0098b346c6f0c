"""Defines the dashboards, one in each module."""

from ccmix.kibana.dashboard import Dashboard
from ccmix.kibana.dashboards.campaigns import CAMPAIGNS
from ccmix.kibana.dashboards.ccas import CCAS
from ccmix.kibana.dashboards.compare import COMPARE
from ccmix.kibana.dashboards.health import HEALTH
from ccmix.kibana.dashboards.mesh import MESH
from ccmix.kibana.dashboards.real_emulated import REAL_EMULATED
from ccmix.kibana.dashboards.run import RUN

DASHBOARDS: tuple[Dashboard, ...] = (CAMPAIGNS, CCAS, RUN, COMPARE, REAL_EMULATED, MESH, HEALTH)
