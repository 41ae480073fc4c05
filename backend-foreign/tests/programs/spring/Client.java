// A client of Spring Integration's RedisLockRegistry.
import java.util.ConcurrentModificationException;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.locks.Lock;
import org.springframework.data.redis.connection.lettuce.LettuceConnectionFactory;
import org.springframework.integration.redis.util.RedisLockRegistry;
import org.springframework.integration.redis.util.RedisLockRegistry.RedisLockType;

class Client extends Driver {
    private final LettuceConnectionFactory redis;
    /** By lease: all locks of a registry have the same lease. */
    private final Map<String, RedisLockRegistry> registries = new HashMap<>();
    private final Map<String, Lock> held = new HashMap<>();

    private Client(String host, int port) {
        redis = new LettuceConnectionFactory(host, port);
        redis.afterPropertiesSet();
        redis.start();
    }

    private RedisLockRegistry registry(String millis) {
        var registry = new RedisLockRegistry(redis, "app", Long.parseLong(millis));
        registry.setRedisLockType(RedisLockType.PUB_SUB_LOCK);
        return registry;
    }

    @Override
    String acquire(String name, String millis) {
        Lock lock = registries.computeIfAbsent(millis, this::registry).obtain(name);
        lock.lock();
        held.put(name, lock);
        return "got";
    }

    @Override
    String release(String name) {
        try {
            held.remove(name).unlock();
            return "released";
        } catch (ConcurrentModificationException | IllegalStateException lost) {
            return "lost";
        }
    }

    public static void main(String[] args) throws Exception {
        new Client(args[0], Integer.parseInt(args[1])).run();
    }
}
