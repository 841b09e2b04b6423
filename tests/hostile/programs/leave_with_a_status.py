# raised SystemExit
raise SystemExit(3)
