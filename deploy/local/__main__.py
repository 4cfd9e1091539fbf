"""python -m deploy.local"""

from deploy.local.cli import main

raise SystemExit(main())
