# Two stages: the first installs, the second only runs, as a user without rights. By itself it is
# the one-machine mode, over http: everything is in /data, with keys made at the first start.
# compose.yaml makes a site of it.
FROM python:3.11.15-slim-trixie AS build
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PYTHONDONTWRITEBYTECODE=1
WORKDIR /app
RUN python -m venv /venv
COPY requirements.txt .
RUN /venv/bin/python -m pip install --require-hashes -r requirements.txt
COPY . .
# The keys are for this one command; it hashes and compresses the static files.
RUN RINGSIDE_ENV=production RINGSIDE_HOME=/tmp/build SECRET_KEY=only-for-the-build-0123456789-abcdef \
    ALLOWED_HOSTS=localhost /venv/bin/python manage.py collectstatic --noinput --verbosity 0 \
    && /venv/bin/python -m compileall -q arena ranking judges

FROM python:3.11.15-slim-trixie
ENV PATH="/venv/bin:$PATH" PYTHONUNBUFFERED=1 RINGSIDE_HOME=/data TMPDIR=/data HOST=0.0.0.0
# pg_dump and pg_restore for backups, of the version that compose.yaml runs.
# hadolint ignore=DL3008
RUN apt-get update && apt-get install --yes --no-install-recommends postgresql-client-17 \
    && rm -rf /var/lib/apt/lists/*
# A volume that is mounted at the folder of exports gets its owner.
RUN useradd --system --uid 10001 --create-home --home-dir /data ringside \
    && install --directory --owner=10001 --group=ringside --mode=700 /data/exports
WORKDIR /app
COPY --from=build /venv /venv
COPY --from=build /app /app
USER 10001
VOLUME /data
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=10s --start-period=30s --retries=3 \
  CMD ["python", "arena/healthcheck.py"]
CMD ["python", "manage.py", "up"]
