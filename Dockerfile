# One image for every role: worker, watchdog, Flower, command line. What it does is its command.
#   docker build --build-arg BASE_IMAGE=python:3.12-slim --tag agentcompass .
ARG BASE_IMAGE=python:3.12-slim
FROM ${BASE_IMAGE}

ENV PYTHONUNBUFFERED=1 \
    PIP_NO_CACHE_DIR=1 \
    PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PIP_ROOT_USER_ACTION=ignore \
    PATH=/opt/agentcompass/bin:$PATH

# Agents run as this user. The numbers are fixed, so that a shared folder can be given to it.
# /results belongs to it: a new named volume takes its owner from here.
RUN groupadd --gid 10001 agentcompass \
 && useradd --uid 10001 --gid 10001 --create-home --shell /usr/sbin/nologin agentcompass \
 && install --directory --owner=agentcompass --group=agentcompass /results

# An environment of its own: a base image may refuse to have its own packages changed.
RUN python3 -m venv /opt/agentcompass

WORKDIR /usr/src/agentcompass
COPY constraints.txt pyproject.toml README.md LICENSE ./
COPY agentcompass ./agentcompass
COPY workers ./workers
RUN python -m pip install --constraint constraints.txt pip \
 && python -m pip install --constraint constraints.txt '.[humaneval]'

# A working directory without our sources, so that what is imported is what was installed.
WORKDIR /home/agentcompass
USER 10001:10001
ENTRYPOINT ["agentcompass"]
CMD ["--help"]
