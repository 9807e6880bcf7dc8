"""What happens by itself: runs are registered, lost runs are marked, the index follows the disk, the pool is rebuilt daily."""

from gc25d_assets.automation.index import index_follows_disk
from gc25d_assets.automation.lost import lost_runs_sensor
from gc25d_assets.automation.runs import runs_on_disk
from gc25d_assets.automation.schedules import pool_daily

SENSORS = (runs_on_disk, index_follows_disk, lost_runs_sensor)
SCHEDULES = (pool_daily,)
