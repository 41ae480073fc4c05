// A client of Redisson.
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

class Client extends Driver {
    private final RedissonClient redisson;
    private final Map<String, RLock> held = new HashMap<>();

    private Client(String address) {
        Config config = new Config();
        config.setThreads(2).setNettyThreads(2);
        config.useSingleServer().setAddress("redis://" + address).setConnectionMinimumIdleSize(1);
        redisson = Redisson.create(config);
    }

    @Override
    String acquire(String name, String millis) {
        RLock lock = redisson.getLock(name);
        lock.lock(Long.parseLong(millis), TimeUnit.MILLISECONDS);
        held.put(name, lock);
        return "got";
    }

    @Override
    String release(String name) {
        try {
            held.remove(name).unlock();
            return "released";
        } catch (IllegalMonitorStateException lost) {
            return "lost";
        }
    }

    /** `fenced NAME MS`: with the token of a fenced lock in the answer. */
    @Override
    String other(String[] words) {
        var lock = redisson.getFencedLock(words[1]);
        long token = lock.lockAndGetToken(Long.parseLong(words[2]), TimeUnit.MILLISECONDS);
        held.put(words[1], lock);
        return "got " + token;
    }

    public static void main(String[] args) throws Exception {
        new Client(args[0] + ":" + args[1]).run();
    }
}
