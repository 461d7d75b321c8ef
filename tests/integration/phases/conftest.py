from tests.support.engine_fixture import engine as engine
